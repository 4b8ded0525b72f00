#include "ops/cuda/forms.h"

namespace smelt::ops {
namespace {

/// One tree of one branch: a leaf for each of two targets, or of two classes.
Form stumps(const std::string& op, const std::string& transform) {
  using Ints = std::vector<int64_t>;
  const bool classifies = op == "TreeEnsembleClassifier";
  const std::string of = classifies ? "class" : "target";
  std::map<std::string, Attribute> attributes{{"nodes_treeids", Ints{0, 0, 0}},
                                              {"nodes_nodeids", Ints{0, 1, 2}},
                                              {"nodes_featureids", Ints{0, 0, 0}},
                                              {"nodes_values", std::vector<float>{1, 0, 0}},
                                              {"nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "LEAF", "LEAF"}},
                                              {"nodes_truenodeids", Ints{1, 0, 0}},
                                              {"nodes_falsenodeids", Ints{2, 0, 0}},
                                              {"post_transform", transform},
                                              {of + "_treeids", Ints{0, 0}},
                                              {of + "_nodeids", Ints{1, 2}},
                                              {of + "_ids", Ints{0, classifies}},
                                              {of + "_weights", std::vector<float>{1, 2}}};
  if (classifies) attributes["classlabels_int64s"] = Ints{5, 7};
  return Form(op, ml_domain, std::move(attributes));
}

}  // namespace

std::vector<Form> data_forms() {
  const auto axes = [](std::vector<int64_t> v) { return Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v); };
  const Attribute nearest = std::string("nearest"), asymmetric = std::string("asymmetric");
  std::vector<Form> list;
  // Means of channels-last images, as mobilenet has them; rows; few results; places.
  list.push_back(
      Form("GlobalAveragePool", "").in(DType::f16, {1, 960, 7, 7}, Layout::nhwc).out(DType::f16, {1, 960, 1, 1}, Layout::nhwc));
  list.push_back(Form("ReduceSum", "").in(DType::bf16, {4096, 4096}).in(axes({1})).out(DType::bf16, {4096, 1}));
  list.push_back(Form("ReduceLogSumExp", "").in(DType::f32, {1, 1 << 20}).in(axes({1})).out(DType::f32, {1, 1}));
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                         "ReduceSumSquare", "ReduceLogSum"})
    list.push_back(Form(op, "").in(DType::f32, {2, 1 << 17}).in(axes({1})).out(DType::f32, {2, 1}));
  list.push_back(Form("ReduceProd", "").in(DType::i32, {64, 33}).in(axes({0})).out(DType::i32, {1, 33}));
  list.push_back(Form("ArgMax", "", {{"axis", int64_t{1}}}).in(DType::f16, {8, 1000}).out(DType::i64, {8, 1}));
  list.push_back(Form("Softmax", "").in(DType::f32, {3234, 91}).out(DType::f32, {3234, 91}));
  list.push_back(Form("Softmax", "", {{"axis", int64_t{1}}}).in(DType::f16, {2, 64, 40}).out(DType::f16, {2, 64, 40}));
  list.push_back(Form("QLinearSoftmax", microsoft_domain, {{"axis", int64_t{-1}}, {"opset", int64_t{13}}})
                     .in(DType::u8, {12, 384, 384})
                     .in(Tensor::scalar(0.1f))
                     .in(Tensor::scalar<uint8_t>(120))
                     .in(Tensor::scalar(0.004f))
                     .in(Tensor::scalar<uint8_t>(0))
                     .out(DType::u8, {12, 384, 384}));
  list.push_back(Form("LogSoftmax", "").in(DType::bf16, {1, 300000}).out(DType::bf16, {1, 300000}));
  list.push_back(Form("Gather", "").in(DType::f16, {30522, 768}).in(DType::i64, {8, 384}).out(DType::f16, {8, 384, 768}));
  list.push_back(Form("GatherND", "").in(DType::f32, {3234, 4}).in(DType::i64, {300, 1}).out(DType::f32, {300, 4}));
  list.push_back(Form("GatherElements", "").in(DType::f32, {6, 7}).in(DType::i64, {4, 7}).out(DType::f32, {4, 7}));
  for (const char* reduction : {"none", "add"})
    list.push_back(Form("ScatterND", "", {{"reduction", std::string(reduction)}})
                       .in(DType::f32, {64, 16})
                       .in(DType::i64, {9, 1})
                       .in(DType::f32, {9, 16})
                       .out(DType::f32, {64, 16}));
  list.push_back(Form("ScatterND", "", {{"reduction", std::string("add")}})
                     .in(DType::f32, {64, 16})
                     .in(DType::i64, {9000, 1})
                     .in(DType::f32, {9000, 16})
                     .out(DType::f32, {64, 16}));
  list.push_back(Form("Pad", "")
                     .in(DType::f16, {1, 8, 20, 20}, Layout::nhwc)
                     .in(axes({0, 0, 1, 1, 0, 0, 1, 1}))
                     .out(DType::f16, {1, 8, 22, 22}, Layout::nhwc));
  list.push_back(Form("Pad", "")  // by a value that the run computes
                     .in(DType::u8, {1, 8, 20, 20}, Layout::nhwc)
                     .in(axes({0, 0, 1, 1, 0, 0, 1, 1}))
                     .in(DType::u8, {})
                     .out(DType::u8, {1, 8, 22, 22}, Layout::nhwc));
  list.push_back(Form("Resize", "",
                      {{"mode", nearest}, {"coordinate_transformation_mode", asymmetric}, {"nearest_mode", std::string("floor")}})
                     .in(DType::f16, {1, 256, 20, 20}, Layout::nhwc)
                     .in(DType::undefined, {})
                     .in(Tensor::of<float>({4}, {1, 1, 2, 2}))
                     .out(DType::f16, {1, 256, 40, 40}, Layout::nhwc));
  for (const char* mode : {"linear", "cubic"})
    for (const Layout layout : {Layout::plain, Layout::nhwc})
      list.push_back(Form("Resize", "", {{"mode", std::string(mode)}})
                         .in(DType::f16, {1, 256, 20, 20}, layout)
                         .in(DType::undefined, {})
                         .in(Tensor::of<float>({4}, {1, 1, 2, 2}))
                         .out(DType::f16, {1, 256, 40, 40}, layout));
  list.push_back(Form("Cast", "").in(DType::f32, {1000}).out(DType::f8e4m3fn, {1000}));
  list.push_back(Form("Cast", "").in(DType::f8e5m2fnuz, {1000}).out(DType::f16, {1000}));
  list.push_back(Form("Cast", "").in(DType::i4, {1000}).out(DType::f4e2m1, {1000}));
  list.push_back(Form("QuantizeLinear", "")
                     .in(DType::f16, {8, 64, 100})
                     .in(DType::f16, {64})
                     .in(DType::i8, {64})
                     .out(DType::i8, {8, 64, 100}));
  list.push_back(Form("DequantizeLinear", "", {{"axis", int64_t{0}}, {"block_size", int64_t{32}}})
                     .in(DType::u4, {4096, 64})
                     .in(DType::f16, {128, 64})
                     .in(DType::u4, {128, 64})
                     .out(DType::f16, {4096, 64}));
  for (const bool cache : {false, true}) {
    Form f("Attention", "");
    for (int i = 0; i < 3; ++i) f.in(DType::f16, {2, 4, 64, 32});
    if (cache) f.in(DType::boolean, {64, 96}).in(DType::f16, {2, 4, 32, 32}).in(DType::f16, {2, 4, 32, 32});
    f.out(DType::f16, {2, 4, 64, 32});
    if (cache) f.out(DType::f16, {2, 4, 96, 32}).out(DType::f16, {2, 4, 96, 32});
    list.push_back(std::move(f));
  }
  for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
    list.push_back(Form(op, "").in(DType::f32, {8, 91, 100}).in(DType::i64, {8, 100}).out(DType::f32, {}));
  for (const char* mode : {"linear", "cubic"})
    list.push_back(Form("GridSample", "", {{"mode", std::string(mode)}})
                       .in(DType::f32, {1, 8, 20, 20})
                       .in(DType::f32, {1, 30, 30, 2})
                       .out(DType::f32, {1, 8, 30, 30}));
  const auto one = [](int64_t v) { return Tensor::of<int64_t>({}, {v}); };
  list.push_back(Form("STFT", "").in(DType::f32, {1, 16000}).in(one(160)).in(DType::f32, {400}).out(DType::f32, {1, 98, 201, 2}));
  list.push_back(
      Form("DFT", "").in(DType::f64, {2, 21, 5, 2}).in(DType::undefined, {}).in(one(1)).out(DType::f64, {2, 21, 5, 2}));
  list.push_back(Form("DFT", "", {{"inverse", int64_t{1}}, {"onesided", int64_t{1}}})
                     .in(DType::f16, {8, 513, 2})
                     .in(one(1024))
                     .in(one(1))
                     .out(DType::f16, {8, 1024, 1}));
  for (const char* op : {"Hardmax", "LpNormalization", "LRN"})
    list.push_back(Form(op, "", {{"size", int64_t{5}}}).in(DType::f16, {8, 64, 9}).out(DType::f16, {8, 64, 9}));
  for (const auto& [op, gates] : {std::pair{"RNN", 1}, std::pair{"GRU", 3}, std::pair{"LSTM", 4}})
    list.push_back(Form(op, "")
                       .in(DType::f16, {9, 2, 64})
                       .in(DType::f16, {1, gates * 128, 64})
                       .in(DType::f16, {1, gates * 128, 128})
                       .in(DType::f16, {1, gates * 256})
                       .out(DType::f16, {9, 1, 2, 128})
                       .out(DType::f16, {1, 2, 128}));
  list.push_back(Form("GRU", "", {{"activations", std::vector<std::string>{"Sigmoid", "Tanh", "HardSigmoid", "Softsign"}}})
                     .in(DType::f32, {5, 2, 16})
                     .in(DType::f32, {2, 3 * 32, 16})
                     .in(DType::f32, {2, 3 * 32, 32})
                     .out(DType::f32, {5, 2, 2, 32}));
  list.push_back(Form("LSTM", "")
                     .in(DType::f32, {9, 1, 512})
                     .in(DType::f32, {1, 4 * 512, 512})
                     .in(DType::f32, {1, 4 * 512, 512})
                     .out(DType::f32, {9, 1, 1, 512}));
  list.push_back(Form("DynamicQuantizeLSTM", microsoft_domain)
                     .in(DType::f32, {9, 1, 64})
                     .in(Tensor::zeros(DType::i8, {1, 64, 4 * 128}))
                     .in(Tensor::zeros(DType::i8, {1, 128, 4 * 128}))
                     .in(DType::undefined, {})
                     .in(DType::undefined, {})
                     .in(DType::undefined, {})
                     .in(DType::undefined, {})
                     .in(DType::undefined, {})
                     .in(Tensor::zeros(DType::f32, {1}))
                     .in(DType::undefined, {})
                     .in(Tensor::zeros(DType::f32, {1}))
                     .out(DType::f32, {9, 1, 1, 128}));
  list.push_back(stumps("TreeEnsembleRegressor", "SOFTMAX").in(DType::f64, {30, 7}).out(DType::f32, {30, 1}));
  list.push_back(
      stumps("TreeEnsembleClassifier", "LOGISTIC").in(DType::f32, {30, 7}).out(DType::i64, {30}).out(DType::f32, {30, 2}));
  list.push_back(Form("Einsum", "", {{"equation", std::string("bij,bjk->bik")}})
                     .in(DType::f32, {3, 50, 40})
                     .in(DType::f32, {3, 40, 70})
                     .out(DType::f32, {3, 50, 70}));
  list.push_back(Form("LayerNormalization", "")
                     .in(DType::f16, {64, 768})
                     .in(DType::f16, {768})
                     .in(DType::f16, {768})
                     .out(DType::f16, {64, 768})
                     .out(DType::f32, {64, 1})
                     .out(DType::f32, {64, 1}));
  list.push_back(Form("Range", "").in(DType::f32, {}).in(DType::f32, {}).in(DType::f32, {}).out(DType::f32, {1000}));
  list.push_back(Form("Trilu", "").in(DType::f32, {64, 64}).out(DType::f32, {64, 64}));
  list.push_back(
      Form("TopK", "").in(DType::f32, {91, 3234}).in(axes({300})).out(DType::f32, {91, 300}).out(DType::i64, {91, 300}));
  list.push_back(Form("TopK", "").in(DType::f64, {9000}).in(axes({300})).out(DType::f64, {300}).out(DType::i64, {300}));
  list.push_back(Form("CumSum", "").in(DType::f32, {8, 1000}).in(Tensor::scalar<int64_t>(1)).out(DType::f32, {8, 1000}));
  list.push_back(Form("CumSum", "").in(DType::f32, {1, 30000, 9}).in(Tensor::scalar<int64_t>(1)).out(DType::f32, {1, 30000, 9}));
  for (const char* op : {"RandomNormalLike", "RandomUniformLike"})
    for (const DType type : {DType::f32, DType::f64}) list.push_back(Form(op, "").in(type, {8, 1000}).out(type, {8, 1000}));
  list.push_back(Form("AffineGrid", "").in(DType::f16, {2, 3, 4}).in(axes({2, 1, 8, 9, 10})).out(DType::f16, {2, 8, 9, 10, 3}));
  // What is found is counted there: an output more (ops/core/data_dependent.h).
  list.push_back(Form("NonZero", "").in(DType::f16, {60, 91, 3}).out(DType::i64, {3, 16380}).count());
  list.push_back(Form("Compress", "").in(DType::f32, {9000}).in(DType::boolean, {9000}).out(DType::f32, {9000}).count());
  list.push_back(Form("Compress", "", {{"axis", int64_t{1}}})
                     .in(DType::f16, {2, 3234, 8})
                     .in(DType::boolean, {3234})
                     .out(DType::f16, {2, 3234, 8})
                     .count());
  list.push_back(Form("Unique", "", {{"sorted", int64_t{0}}})
                     .in(DType::f32, {9000})
                     .out(DType::f32, {9000})
                     .out(DType::i64, {9000})
                     .out(DType::i64, {9000})
                     .out(DType::i64, {9000})
                     .count());
  for (const int64_t centered : {0, 1})
    list.push_back(Form("NonMaxSuppression", "", {{"center_point_box", centered}})
                       .in(DType::f32, {1, 6000, 4})
                       .in(DType::f32, {1, 80, 6000})
                       .in(Tensor::of<int64_t>({1}, {200}))
                       .in(DType::f32, {1})
                       .in(DType::f32, {1})
                       .out(DType::i64, {16000, 3})
                       .count());
  // A block a line, where lines fill the GPU; many blocks, where a block a line sorts, and by a limit that the run knows.
  for (const int64_t centered : {0, 1})
    list.push_back(Form("NonMaxSuppression", "", {{"center_point_box", centered}})
                       .in(DType::f32, {1, 300, 4})
                       .in(DType::f32, {1, 600, 300})
                       .in(Tensor::of<int64_t>({1}, {100}))
                       .out(DType::i64, {60000, 3})
                       .count());
  list.push_back(Form("NonMaxSuppression", "")
                     .in(DType::f32, {1, 3000, 4})
                     .in(DType::f32, {1, 12, 3000})
                     .in(Tensor::of<int64_t>({1}, {3000}))
                     .out(DType::i64, {36000, 3})
                     .count());
  list.push_back(Form("NonMaxSuppression", "")
                     .in(DType::f32, {1, 5000, 4})
                     .in(DType::f32, {1, 1, 5000})
                     .in(DType::i64, {1})
                     .in(DType::f32, {1})
                     .out(DType::i64, {5000, 3})
                     .count());
  for (const char* mode : {"avg", "max"})
    for (const DType type : {DType::f16, DType::f32, DType::f64})
      list.push_back(
          Form("RoiAlign", "", {{"mode", std::string(mode)}, {"output_height", int64_t{7}}, {"output_width", int64_t{7}}})
              .in(type, {1, 256, 50, 76})
              .in(type, {512, 4})
              .in(DType::i64, {512})
              .out(type, {512, 256, 7, 7}));
  return list;
}

}  // namespace smelt::ops
