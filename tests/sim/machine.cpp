// Where does the one simulated machine live?
#include "handles.h"

namespace sim {

thread_local ContextStack context_stack;

Machine& machine() {
  // Never destroyed: programs free memory from their own destructors and atexit handlers.
  static Machine& instance = *new Machine;
  return instance;
}

}  // namespace sim
