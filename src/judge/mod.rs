//! Was it worth it? The best linear map, what the embeddings say of themselves, and the verdict.

pub(crate) mod linear;

pub(crate) mod diagnostics;

pub(crate) mod verdict;
