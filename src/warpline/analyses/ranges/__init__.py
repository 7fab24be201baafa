"""GPU work by range: tables without an nsys counterpart."""
