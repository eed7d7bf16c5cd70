"""Between Python and Arrow: values, frames of other libraries, schemas and parameters of queries."""
