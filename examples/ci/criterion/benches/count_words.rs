// SPDX-License-Identifier: MIT
use count_words::count_words;
use criterion::{black_box, criterion_group, criterion_main, Criterion};

fn words(criterion: &mut Criterion) {
    let text = b"the quick brown fox jumps over the lazy dog ".repeat(500);
    criterion.bench_function("count_words", |bencher| {
        bencher.iter(|| count_words(black_box(&text)))
    });
}

criterion_group!(benches, words);
criterion_main!(benches);
