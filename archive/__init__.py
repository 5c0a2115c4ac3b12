"""The archive: what the topics said, kept as Parquet in a folder or bucket, and jobs and findings in a database."""
