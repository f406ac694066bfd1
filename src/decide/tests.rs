//! Each row: what triggers it, what just does not, and the stories that need a history.

mod attempts;
mod combinations;
mod listed;
mod rivals;
mod row_7;
mod row_8;
mod rows_12_and_13;
mod rows_14_and_15;
mod rows_16_and_17;
mod rows_1_to_6;
mod rows_9_and_10;
mod situation;
mod stories;
