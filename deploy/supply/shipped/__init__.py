"""What is in what we ship, whether something of it is known to be weak, and how a release is signed."""
