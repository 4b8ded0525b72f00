// What the offers of "onednn" tactics share. Includes dnnl.hpp: for their sources only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/cpu/onednn/bytes.h"
#include "ops/cpu/onednn/post_ops.h"

namespace smelt::ops::onednn {

/// An epilogue's program as post-operations of the primitive; nothing: it is simple, or runs in a pass of its own.
using Chain = std::optional<PostOps>;

/// `add` asks oneDNN for its implementations and adds them as candidates; it returns whether there are any. That there are none,
/// and oneDNN's errors, become rejections, which say so where the implementations were to run the program too.
void offer_found(Offer& offer, bool with_program, const std::function<bool()>& add);

/// What a tactic over bytes makes of oneDNN's implementations.
struct ByteProducts {
  std::vector<Implementation> found;
  bool is_signed;  // the rows
  std::function<double(const Implementation&)> estimate_us;
  std::function<std::unique_ptr<Kernel>(const Implementation&)> prepare;
};

/// offer_found for 8-bit products: those implementations whose 32-bit sums are exact with weights of that range become
/// candidates, the others rejections (rejects_weights, rejects_sums).
void offer_exact(Offer& offer, const WeightRange& range, const std::function<ByteProducts()>& ask);

/// Leaves those on AMX, which multiply signed bytes as they are; whether there are any.
bool keep_on_amx(std::vector<Implementation>& found);

/// Takes implementations out of `found`, and refuses them, whose sums are wrong for some convolutions in oneDNN 3.2:
/// - those on AMX where a stride above 1 divides its axis's window, or is above 3 (tests/ops/conv/quantized_conv_test.cpp);
/// - "brgconv" on every instruction set where a stride is above its window: what it copies of a padded image takes more room than it has
///   (https://github.com/uxlfoundation/oneDNN/pull/5494 mends that; tests/ops/conv/conv_tactics_test.cpp).
/// `windows`, `strides`: along each axis.
void leave_out_wrong(std::vector<Implementation>& found, std::span<const int64_t> windows, std::span<const int64_t> strides,
                     Offer& offer);

}  // namespace smelt::ops::onednn
