"""The node agent: samples GPUs, host and hardware inventory, and publishes one message a second of each."""
