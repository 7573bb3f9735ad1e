//! A load test.
