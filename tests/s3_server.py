"""An S3 server of the tests' own, in this process, with a bucket called ``archive``."""

import warnings
from collections.abc import Iterator

import pytest

LOGIN = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    """An S3 server with a bucket called ``archive``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import boto3
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        server.start()
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        login = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=address, **login).create_bucket(Bucket="archive")
    yield address
    server.stop()
