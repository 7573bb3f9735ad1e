//! What arrived, drawn.
