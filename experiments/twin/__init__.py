"""The services of docker-compose.yml, started natively."""
