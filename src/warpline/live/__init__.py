"""What a recording in progress has of the last seconds; nothing here changes a session."""
