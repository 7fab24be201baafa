"""Device work by range: tables that nsys has no equal of."""
