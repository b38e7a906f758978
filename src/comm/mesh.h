// Mesh: the groups a rank belongs to, one for each way of splitting the work.
#pragma once
#include <memory>

#include "comm/communicator.h"

namespace espalier {

struct Mesh {
  std::shared_ptr<Communicator> world;     ///< all ranks
  std::shared_ptr<Communicator> data;      ///< ranks with other data and the same weights
  std::shared_ptr<Communicator> tensor;    ///< ranks that share each layer
  std::shared_ptr<Communicator> pipeline;  ///< ranks that hold other layers
};

/// Every group is the group of one.
Mesh one_process_mesh();

}  // namespace espalier
