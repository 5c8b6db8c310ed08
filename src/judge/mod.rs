//! Was it worth it? The best linear map, statistics of the embeddings, the verdict, and how small vectors can be.

pub(crate) mod linear;

pub(crate) mod diagnostics;

pub(crate) mod verdict;

pub(crate) mod vector_sizes;
