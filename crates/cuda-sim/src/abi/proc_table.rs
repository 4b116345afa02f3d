//! Which symbol `cuGetProcAddress` gives for a name and a version.
