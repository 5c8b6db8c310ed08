/// The vec4 of references that stands at this place: as they are stored. What packed.wgsl has instead opens f16.
fn reference_at(at: u32) -> vec4f {
  return references[at];
}
