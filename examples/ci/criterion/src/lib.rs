// SPDX-License-Identifier: MIT
//! What is measured. It is not inlined, so that it has an entry and a return. With the feature
//! `regression` it is slower by about one percent.

#[inline(never)]
pub fn count_words(text: &[u8]) -> usize {
    let mut words = 0;
    let mut inside = false;
    for &byte in text {
        let letter = byte != b' ';
        words += usize::from(letter && !inside);
        inside = letter;
    }
    if cfg!(feature = "regression") {
        for _ in 0..text.len() / 16 {
            words = unsafe { std::ptr::read_volatile(&words) };
        }
    }
    words
}
