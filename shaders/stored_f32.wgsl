// Rows that are stored as they are computed: four components a vec4. Precedes shaders that read or write stored rows.

alias Stored = vec4f;

/// Four components of a stored row.
fn floats(v: Stored) -> vec4f {
  return v;
}

/// Four components as they are stored.
fn stored(v: vec4f) -> Stored {
  return v;
}
