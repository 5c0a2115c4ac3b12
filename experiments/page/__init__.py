"""What the page costs the browser and the server: made-up jobs and machines, no broker."""
