//! For the tests of this module.
