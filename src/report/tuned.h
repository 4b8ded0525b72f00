// Single products and convolutions by every kernel that runs them, measured: what `smelt tune` prints.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profile/profile.h"
#include "report/table.h"
#include "smelt/session.h"
#include "tune/timing.h"
#include "tune/tuner.h"

namespace smelt::report {

/// One product or convolution, measured.
struct TunedProduct {
  std::string name;     // as it was asked for, or the node of a model
  std::string problem;  // the cache's key
  DType type = DType::f32;
  int64_t m = 0, n = 0, k = 0;  // of a convolution images, output channels, products to a sum
  std::string rows = "M";       // what m counts: M or images
  double bytes = 0, flops = 0;
  double floor_us = 0;                 // of its bytes or operations at the machine's ceilings; 0: these are not known
  std::vector<tune::Timing> timings;   // fastest first
  std::string tactic, config;          // what a plan runs
  std::vector<tune::NotChosen> apart;  // candidates that were not measured and tactics that do not run it, with the reason

  /// The library's fastest, oneDNN's or cuBLASLt's; null where it has none.
  const tune::Timing* vendor() const;
};

/// Measures products with what the options say (device, threads, tactics, tuning level, cache): each of `problems`
/// (tune/problem_text.h), and all products of the model at `from`, if one is named. `note` is told what is measured now.
/// Throws Error (usage) for a text that is no problem.
std::vector<TunedProduct> tune_products(const std::vector<std::string>& problems, const std::string& from, const Options& options,
                                        const std::function<void(const std::string&)>& note = {});
/// The problem at so many rows each, a convolution at so many images.
std::vector<TunedProduct> tune_over_rows(const std::string& problem, const std::vector<int64_t>& rows, const Options& options,
                                         const std::function<void(const std::string&)>& note = {});

/// A row for each candidate that was measured. `all`: of all products in one table, with a column that says which.
Table tuned_table(const std::vector<TunedProduct>& products, bool all, const std::string& vendor);
/// Candidates that were not measured, and why.
Table not_measured_table(const std::vector<TunedProduct>& products);
std::string vendor_name(const Options& options);

/// Two drawings side by side as SVG: the fastest time of each tactic over the rows of `over_rows`, with the floor, and the
/// candidates of `products` under the machine's roof.
std::string tuning_svg(const std::vector<TunedProduct>& over_rows, const std::vector<TunedProduct>& products,
                       const profile::Roof& roof);

/// Measures the first problem, or product, over M from 1 to 512, a convolution over 1 to 64 images, and writes both drawings to
/// `path`.
void write_tuning_plot(const std::string& path, const std::vector<std::string>& problems,
                       const std::vector<TunedProduct>& products, const Options& options,
                       const std::function<void(const std::string&)>& note = {});

/// The table as comma-separated values: a line with the columns' keys, then the rows.
std::string csv(const Table& table);

}  // namespace smelt::report
