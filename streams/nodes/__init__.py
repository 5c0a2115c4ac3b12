"""What a node's GPUs and host say of themselves: pure decisions over one node's samples. No I/O, no clock."""
