"""The reader of Nsight Systems exports."""
