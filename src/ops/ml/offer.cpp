// Classical machine learning's operators and their tactics.
#include "ops/ml/offer.h"

#include "ops/ml/family.h"
#include "ops/ml/ngrams.h"

namespace smelt::ops {
namespace {

bool is_trees(const Node& n) {
  return n.domain == ml_domain && (n.op == "TreeEnsemble" || n.op == "TreeEnsembleRegressor" || n.op == "TreeEnsembleClassifier");
}
bool is_row_model(const Node& n) {
  return n.domain == ml_domain &&
         (n.op == "LinearRegressor" || n.op == "LinearClassifier" || n.op == "SVMRegressor" || n.op == "SVMClassifier");
}
bool is_tf_idf(const Node& n) { return n.is("TfIdfVectorizer"); }
bool is_label_encoder(const Node& n) { return n.is("LabelEncoder", ml_domain); }
bool is_one_hot_encoder(const Node& n) { return n.is("OneHotEncoder", ml_domain); }

bool is_of_features(const Node& n) {
  return n.domain == ml_domain && (n.op == "ArrayFeatureExtractor" || n.op == "Binarizer" || n.op == "FeatureVectorizer" ||
                                   n.op == "Imputer" || n.op == "Normalizer" || n.op == "Scaler");
}

constexpr OperatorTactics operators[] = {
    {is_trees, offer_trees_cpu, offer_trees_cuda},
    {is_row_model, offer_row_models_cpu, nullptr},
    {is_label_encoder, offer_label_encoder_cpu, nullptr},
    {is_of_features, offer_features_cpu, nullptr},
    {is_one_hot_encoder, offer_one_hot_encoder_cpu, nullptr},
    {is_tf_idf, offer_tf_idf_cpu, nullptr},
};

}  // namespace

constinit const TacticFamily ml_family{operators};

}  // namespace smelt::ops
