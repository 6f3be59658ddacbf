//! edgectl.
