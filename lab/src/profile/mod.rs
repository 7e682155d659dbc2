//! One server under load, looked into: where its time goes, on the CPU and off it.
