/* Lines of an export: a readable line gets a verdict, and the same verdict again. */
#include <assert.h>
#include <string.h>

#include "policy/replay_export.h"
#include "tests/fuzz/default_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct policy_set *set;
    struct replay_tally first = {0}, second = {0};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    struct error err;

    if (set == NULL) set = default_set();
    const struct replay_sets sets = {1, &set, NULL};
    const struct bytes line = {data, size};
    if (!replay_export_line(line, &sets, &first, &err).ok) return 0;
    assert(first.agree + first.differ + first.impossible == 1);
    assert(replay_export_line(line, &sets, &second, &err).ok);
    assert(first.agree == second.agree && first.differ == second.differ && strcmp(first.what, second.what) == 0);
    assert(replay_tally_json(&first, &text, &err).ok && replay_tally_text(&first, &text, &err).ok);
    return 0;
}
