#include "ops/onednn/offer.h"

#include <fmt/core.h>

namespace smelt::ops::onednn {

void offer_found(Offer& offer, bool with_program, const std::function<bool()>& add) {
  const char* with = with_program ? " with the program as post-operations" : "";
  try {
    if (!add()) offer.rejected.push_back({"onednn", fmt::format("it has only its reference for this problem{}", with)});
  } catch (const dnnl::error& e) {
    offer.rejected.push_back({"onednn", fmt::format("oneDNN: {}{}", e.what(), with)});
  }
}

std::vector<Implementation> exact(std::vector<Implementation> found, bool is_signed, const WeightRange& range, Offer& offer) {
  std::erase_if(found, [&](const Implementation& i) {
    auto reason = rejects_sums(i.name, is_signed, range);
    if (reason) offer.rejected.push_back({"onednn", std::move(*reason)});
    return reason.has_value();
  });
  return found;
}

}  // namespace smelt::ops::onednn
