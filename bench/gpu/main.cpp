// Kernels of smelt on GPU 0, timed in one CUDA graph of many calls, replayed; inputs rotated over three times the L2 cache.
//
// usage: bench_gpu [--tf32] ceilings | ladder DOCS_LADDER | norm | group_norm | reduce | softmax | movement | nms [FIRST LAST] | roi_align | select
//        | gemm|gemm_hopper [FIRST LAST [EPILOGUE…]] | gemm_candidates M N K EPILOGUE [TYPE]
//        | gemm_every CSV EPILOGUE [~REGEX OF TILES] MxNxK|FIRST-LAST… | gemm_tiles EPILOGUE REGEX MxNxK|FIRST-LAST… | gemm_chain EPILOGUE MxNxK|FIRST-LAST…
//        | gemm_int8 MxNxK|FIRST-LAST… | gemm_int8_computed | boxes | attention [PART OF A PROBLEM'S NAME [REGEX OF CANDIDATES]] | conv WHAT [IMAGES [CANDIDATES [f16|i8 [CSV [REGEX OF PROBLEMS [cute]]]]]]
//
// Prints a line a problem, as JSON: {"problem": …, "tactic": …, "us": median, "q1_us": …, "q3_us": …, "bytes": …}.
#include <filesystem>

#include "base/file.h"
#include "bench.h"
#include "device/cuda/ceilings.h"
#include "device/cuda/module.h"

namespace {

using namespace smelt;
using namespace smelt::bench;

void ceilings() {
  const auto c = cuda::measure_ceilings(gpu()->device, *gpu()->cubins);
  fmt::print("{{\"read_bytes_per_s\": {:.4g}, \"copy_bytes_per_s\": {:.4g}, \"launch_us\": {:.3f}}}\n", c.read_bytes_per_s,
             c.copy_bytes_per_s, c.launch_us);
  for (const device::Rate& r : c.rates)
    fmt::print("{{\"type\": \"{}\", \"flops_per_s\": {:.4g}, \"how\": \"{}\"}}\n", name(r.type), r.flops_per_s, r.how);
}

using Rows = std::pair<int64_t, int64_t>;
const std::vector<Rows> norm_shapes{{4096, 512}, {4096, 4096}, {16384, 8192}, {32768, 1024}, {8192, 5120}, {64, 4096}, {2, 4096}};
const std::vector<Rows> odd_shapes{{4096, 1000}, {4096, 4099}, {1, 4096}, {4096, 3}, {64, 65536}, {1, 65536}};

void ladder(const std::filesystem::path& folder) {
  for (const auto& [rows, columns] : norm_shapes) {
    const int64_t n = rows * columns, moved = 4 * n;
    const Rotating x(DType::bf16, n, moved), y(DType::bf16, n, moved), g(DType::bf16, columns, moved);
    for (const char* step : {"v1", "v2", "v3", "v4"}) {
      double best = 1e30;
      std::vector<double> kept;
      std::string how;
      for (const int threads : step[1] == '1' ? std::vector<int>{32} : std::vector<int>{64, 128, 256, 512, 1024}) {
        const std::vector<std::string> options{fmt::format("-DTHREADS={}", threads), fmt::format("-DCOLUMNS={}", columns)};
        const cuda::Source source{step, read_text(folder / (std::string(step) + ".cu")), options};
        const cuda::Module module(gpu()->device, gpu()->cubins->get(source, gpu()->info.arch), step);
        cuda::GraphTiming t = timing(moved);
        if (step[1] == '1') t = {.calls = 2, .replays = 5};
        auto us = cuda::time_graph(
            gpu()->device,
            [&](int call, cuda::abi::Stream stream) {
              void *in = x.at(call), *out = y.at(call), *gain = g.at(call);
              int width = static_cast<int>(columns);
              float epsilon = 1e-5f;
              void* parameters[] = {&in, &gain, &out, &width, &epsilon};
              module.function("rms_norm")
                  .launch({.grid = {static_cast<unsigned>(rows), 1, 1}, .block = {static_cast<unsigned>(threads), 1, 1}},
                          parameters, stream);
            },
            t);
        std::ranges::sort(us);
        if (const double median = quantile(us, 0.5); median < best)
          best = median, kept = us, how = fmt::format("{} {} threads", step, threads);
      }
      report(fmt::format("rms_norm bf16 [{}, {}]", rows, columns), how, kept, moved);
    }
  }
}

/// Every candidate for a normalisation, the fastest last.
void norm(const std::vector<Rows>& shapes, bool residual, DType type) {
  for (const auto& [rows, columns] : shapes) {
    Node node;
    node.domain = smelt_domain;
    node.op = "Norm";
    node.attrs["kind"] = std::string("rms");
    node.attrs["epsilon"] = 1e-5f;
    ops::BoundNode b;
    const int64_t n = rows * columns, size = bytes(type, 1), moved = (residual ? 4 : 2) * n * size;
    const ops::BoundTensor full{type, {rows, columns}}, row{type, {columns}};
    node.inputs = {ValueId{0}, residual ? ValueId{1} : ValueId::none, ValueId{2}, ValueId::none};
    b.inputs = {full, residual ? full : ops::BoundTensor{}, row, {}};
    node.outputs = {ValueId{3}};
    b.outputs = {full};
    if (residual) node.outputs.push_back(ValueId{4}), b.outputs.push_back(full);
    b.node = &node;
    ops::Machine machine;
    machine.gpu = gpu();
    const ops::Offer offer = ops::offer(b, machine);
    const Rotating x(type, n, moved), r(type, residual ? n : 1, moved), g(type, columns, moved), y(type, n, moved),
        s(type, residual ? n : 1, moved);
    const std::string problem = fmt::format("{}rms_norm {} [{}, {}]", residual ? "residual + " : "", name(type), rows, columns);
    std::vector<double> best;
    std::string tactic;
    for (const ops::Candidate& c : offer.candidates) {
      const auto kernel = c.prepare();
      const auto workspace = gpu()->device->allocate(std::max<int64_t>(1, kernel->workspace()), "a workspace");
      auto us = cuda::time_graph(
          gpu()->device,
          [&](int call, cuda::abi::Stream stream) {
            const void* in[] = {x.at(call), residual ? r.at(call) : nullptr, g.at(call), nullptr};
            void* out[] = {y.at(call), s.at(call)};
            kernel->run({in, std::span(out, residual ? 2u : 1u), reinterpret_cast<void*>(workspace->address()), stream});
          },
          timing(moved));
      std::ranges::sort(us);
      report(problem, c.config, us, moved);
      if (best.empty() || quantile(us, 0.5) < quantile(best, 0.5)) best = us, tactic = c.config;
    }
    report(problem, "best: " + tactic, best, moved);
  }
}

/// MxNxK, or FIRST-LAST of KERNELS.md's shapes.
std::vector<std::array<int64_t, 3>> problems_of(int count, char** texts) {
  std::vector<std::array<int64_t, 3>> problems;
  for (int i = 0; i < count; ++i) {
    int64_t m = 0, n = 0, k = 0, last = 0;
    if (std::sscanf(texts[i], "%ldx%ldx%ld", &m, &n, &k) == 3) {
      problems.push_back({m, n, k});
    } else if (std::sscanf(texts[i], "%ld-%ld", &m, &last) == 2) {
      for (const auto& s : gemm_shapes(static_cast<size_t>(m), static_cast<size_t>(last))) problems.push_back(s);
    } else {
      fail("'{}' is neither MxNxK nor FIRST-LAST", texts[i]);
    }
  }
  return problems;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--tf32") rounds_to_tf32() = true, --argc, ++argv;
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "ceilings")
      ceilings();
    else if (what == "ladder" && argc > 2)
      ladder(argv[2]);
    else if (what == "boxes")
      boxes();
    else if (what == "attention")
      attention(argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "");
    else if (what == "norm") {
      norm(norm_shapes, false, DType::bf16);
      norm(odd_shapes, false, DType::bf16);
      norm({{4096, 4096}, {16384, 8192}, {4096, 512}, {2, 4096}}, true, DType::bf16);
    } else if (what == "gemm_candidates" && argc > 5) {
      const auto type = parse_dtype(argc > 6 ? argv[6] : "f16");
      if (!type) fail("gemm_candidates: TYPE is '{}', expected f32, f16 or bf16", argv[6]);
      gemm_candidates(std::stol(argv[2]), std::stol(argv[3]), std::stol(argv[4]), argv[5], *type);
    } else if (what == "gemm_every" && argc > 4) {
      const bool some = argc > 5 && argv[4][0] == '~';
      gemm_every(argv[2], problems_of(argc - 4 - some, argv + 4 + some), argv[3], some ? argv[4] + 1 : "");
    } else if (what == "gemm_tiles" && argc > 4) {
      gemm_tiles(argv[2], argv[3], problems_of(argc - 4, argv + 4));
    } else if (what == "gemm_chain" && argc > 3) {
      gemm_chain(problems_of(argc - 3, argv + 3), argv[2]);
    } else if (what == "gemm_int8" && argc > 2) {
      gemm_int8(problems_of(argc - 2, argv + 2));
    } else if (what == "gemm_int8_computed") {
      gemm_int8_computed();
    } else if (what == "group_norm") {
      group_norm();
    } else if (what == "reduce") {
      reduce();
    } else if (what == "softmax") {
      softmax();
    } else if (what == "movement") {
      movement();
    } else if (what == "nms") {
      nms(argc > 3 ? std::stoul(argv[2]) : 0, argc > 3 ? std::stoul(argv[3]) : SIZE_MAX);
    } else if (what == "roi_align") {
      roi_align();
    } else if (what == "select") {
      select();
    } else if (what == "conv" && argc > 2) {
      conv(argv[2], argc > 3 ? std::stol(argv[3]) : 1, argc > 4 ? std::stoul(argv[4]) : 8,
           argc > 5 && std::string_view(argv[5]) == "i8" ? DType::i8 : DType::f16, argc > 6 ? argv[6] : "",
           argc > 7 ? argv[7] : "", argc > 8 && std::string_view(argv[8]) == "cute");
    } else if (what == "gemm" || what == "gemm_hopper") {
      const std::vector<std::string> epilogues =
          argc > 4 ? std::vector<std::string>(argv + 4, argv + argc) : std::vector<std::string>{"relu", "gelu"};
      gemm(epilogues, argc > 3 ? std::stoul(argv[2]) : 0, argc > 3 ? std::stoul(argv[3]) : SIZE_MAX, what == "gemm");
    } else {
      fmt::print(
          stderr,
          "usage: bench_gpu [--tf32] ceilings | ladder DOCS_LADDER | norm | group_norm | reduce | softmax | movement | nms "
          "[FIRST LAST] | "
          "roi_align | select | gemm|gemm_hopper [FIRST LAST [EPILOGUE…]] | gemm_candidates M N K EPILOGUE [TYPE] | "
          "gemm_every CSV EPILOGUE [~REGEX] MxNxK|FIRST-LAST... | "
          "gemm_tiles EPILOGUE REGEX MxNxK|FIRST-LAST... | gemm_chain EPILOGUE MxNxK|FIRST-LAST... | "
          "gemm_int8 MxNxK|FIRST-LAST... | gemm_int8_computed | boxes | attention [PART [REGEX]] | "
          "conv WHAT [IMAGES [CANDIDATES [f16|i8 [CSV [REGEX [cute]]]]]]\n");
      return 2;
    }
  } catch (const Error& e) {
    fmt::print(stderr, "bench_gpu: {}\n", e.what());
    return static_cast<int>(e.code());
  }
  return 0;
}
