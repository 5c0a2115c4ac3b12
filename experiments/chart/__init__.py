"""The containers of the Helm chart, started natively."""
