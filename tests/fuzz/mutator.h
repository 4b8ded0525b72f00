// Changes of a model as a message: fields anywhere in it, and nodes, so that most inputs get past the parser and many past the
// checker.
#pragma once

#include <google/protobuf/message.h>

#include <memory>

namespace smelt::fuzz {

/// An empty ModelProto with reflection, which ONNX's own generated (lite) classes do not have.
std::unique_ptr<google::protobuf::Message> new_model();

/// One to four changes, which the seed decides.
void mutate(google::protobuf::Message& model, unsigned seed);

/// Adds to `model` what `other` has: its nodes, weights, inputs and outputs, under names of their own, some of its inputs being
/// values of `model`.
void graft(google::protobuf::Message& model, const google::protobuf::Message& other, unsigned seed);

}  // namespace smelt::fuzz
