// Rows that are stored in half precision, IEEE binary16: four components in two words, the first of two in the lower half.
// Precedes shaders that read or write stored rows, in place of stored_f32.wgsl.
//
// Integers alone, as in src/cpu/stored.rs: WGSL leaves the rounding of pack2x16float open, and lets a device take values below
// 2^-14 for zero.

alias Stored = vec2u;

/// Four components of a stored row, exactly. A component that is not finite comes back as 65536 or more.
fn floats(v: Stored) -> vec4f {
  let halves = vec4u(v.x & 0xffffu, v.x >> 16u, v.y & 0xffffu, v.y >> 16u);
  let size = halves & vec4u(0x7fffu);
  // The exponent counts from -112 on; below the least of them components are multiples of 2^-24.
  let large = bitcast<vec4f>((size << vec4u(13u)) + vec4u(112u << 23u));
  let small = vec4f(size) * 5.9604644775390625e-8;
  let value = select(large, small, size < vec4u(0x400u));
  return bitcast<vec4f>(bitcast<vec4u>(value) | ((halves & vec4u(0x8000u)) << vec4u(16u)));
}

/// Four components as they are stored, each rounded to the nearest, of two to the even one.
fn stored(v: vec4f) -> Stored {
  let bits = bitcast<vec4u>(v);
  let size = bits & vec4u(0x7fffffffu);
  // Thirteen bits fall away; a carry out of the last component is infinity, as it is of larger ones.
  let large = min((size - vec4u(112u << 23u) + vec4u(0xfffu) + ((size >> vec4u(13u)) & vec4u(1u))) >> vec4u(13u), vec4u(0x7c00u));
  // Below 2^-14 more bits fall away, and from 25 on all of them.
  let away = min(vec4u(126u) - min(size >> vec4u(23u), vec4u(113u)), vec4u(25u));
  let whole = (size & vec4u(0x7fffffu)) | vec4u(0x800000u);
  let half = (vec4u(1u) << (away - vec4u(1u))) - vec4u(1u);
  let small = (whole + half + ((whole >> away) & vec4u(1u))) >> away;
  let rounded = select(large, small, size < vec4u(113u << 23u));
  let halves = select(rounded, vec4u(0x7e00u), size > vec4u(0x7f800000u)) | ((bits >> vec4u(16u)) & vec4u(0x8000u));
  return vec2u(halves.x | (halves.y << 16u), halves.z | (halves.w << 16u));
}
