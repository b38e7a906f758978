// The quantisers that search (formats/gguf_quantise.h is the door to them): ggml's K types and IQ4_NL leave open which
// scale a sub-block gets, and the scale that its largest number suggests is not the best one.
//
// What is sought are the integers and the few f16 scales of a block for which the sum of w (x - its value)^2 is small,
// with weights w = 2 rms + |x| (rms: of the sub-block). On SmolLM2's activations equal weights give layers' outputs the
// same error within a percent, |x| up to 11 % and x^2 up to 18 % more; perplexities favour these over equal ones.
//   1. Each sub-block alone: a row of candidate scales around the obvious one. A candidate says which level each number
//      gets; for these levels the best scale (and minimum) is a least-squares fit, and its error tells how good the
//      candidate was. The best one is rounded and fitted once more.
//   2. The scales become integers times the block's f16 scale. Neighbouring integers are tried, with the levels that
//      they lead to.
//   3. The block's f16 scales are fitted anew to the levels and integers chosen, and the levels follow once more.
// Four sub-blocks are worked on side by side (formats/gguf_lanes.h). `elements` is whole blocks of finite numbers.
#pragma once
#include <cstddef>
#include <cstdint>

namespace espalier {

// x = scale q - minimum (gguf_search_minima.cc)
void search_q2_k(const float* numbers, int64_t elements, std::byte* out);
void search_q4_k(const float* numbers, int64_t elements, std::byte* out);
void search_q5_k(const float* numbers, int64_t elements, std::byte* out);

// x = scale level(q) (gguf_search_scales.cc)
void search_q3_k(const float* numbers, int64_t elements, std::byte* out);
void search_q6_k(const float* numbers, int64_t elements, std::byte* out);
void search_iq4_nl(const float* numbers, int64_t elements, std::byte* out);

}  // namespace espalier
