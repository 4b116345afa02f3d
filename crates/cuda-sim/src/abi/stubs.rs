//! Functions of the public interface that the stand-in does not carry out: they answer NOT_SUPPORTED.
use super::export;

export! {}
