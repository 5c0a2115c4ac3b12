"""Our images, built and started without a container engine."""
