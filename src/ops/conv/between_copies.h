// A convolution's kernel over images that are copied to another order first, and its result copied back.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ops/core/tactic.h"

namespace smelt::ops::conv {

class BetweenCopies final : public Kernel {
 public:
  struct Copy {
    size_t input;  // of the node; of its result any number
    int64_t at;    // of the copy in the workspace, bytes
    std::unique_ptr<Kernel> kernel;
  };

  /// `before`: of inputs; `behind`: of the result, where `inner` writes a copy of it; `images`: bytes of all copies.
  BetweenCopies(std::vector<Copy> before, std::optional<Copy> behind, std::unique_ptr<Kernel> inner, int64_t images);

  int64_t workspace() const override;
  bool reads(size_t i) const override;
  void run(const Buffers& b) override;

 private:
  std::vector<Copy> before_;
  std::optional<Copy> behind_;
  std::unique_ptr<Kernel> inner_;
  int64_t images_;
  std::vector<const void*> given_;
};

/// The candidate of the lowest estimate; null where there is none.
const Candidate* fastest(const Offer& o);

}  // namespace smelt::ops::conv
