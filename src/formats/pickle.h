// PyTorch's pickled weights (pytorch_model.bin, .pt, .pth, .ckpt). A pickle is a program that makes objects, so reading
// one can do anything; none is ever read here. What is here knows them by their first bytes and their names, and says
// how they become safetensors.
//
// Today's are zip archives whose first member is NAME/data.pkl; before PyTorch 1.6 they began with the pickled number
// 0x1950a86a20f9469cfc6c.
#pragma once
#include <optional>
#include <string>

#include "base/error.h"

namespace espalier {

/// True for a file that torch.save wrote or that is named like one: .pt, .pth, .ckpt, pytorch_model*.bin and its index.
bool is_pickle(const std::string& path);

/// The first of a folder's pickled weights; nothing where it has none.
std::optional<std::string> pickle_in(const std::string& folder);

/// The Error kUnsupported that says why `path` is not read and which command converts it.
Error pickle_refusal(const std::string& path);

}  // namespace espalier
