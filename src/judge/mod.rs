//! Was it worth it? The best linear map, statistics of the embeddings, and the verdict.

pub(crate) mod linear;

pub(crate) mod diagnostics;

pub(crate) mod verdict;
