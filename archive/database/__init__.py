"""Jobs, findings and suggestions in a relational database, each by its id and revision: SQLite, or PostgreSQL."""
