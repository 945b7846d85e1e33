"""The reconcile job."""
