"""Rows on their way out: files of rows, and tables that DuckDB and polars read."""
