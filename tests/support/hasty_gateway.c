/* sijild that asks for the token keys each half a second and not each minute, because hasty_keyd.c has them follow each other as fast. */
#include "base/thread.h"

bool __real_thread_sleep(struct thread *thread, int64_t milliseconds);
bool __wrap_thread_sleep(struct thread *thread, int64_t milliseconds);

bool __wrap_thread_sleep(struct thread *thread, int64_t milliseconds)
{
    return __real_thread_sleep(thread, milliseconds == 60000 ? 500 : milliseconds);
}
