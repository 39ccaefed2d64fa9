/* Lines of an export: what can be read is judged, and judged the same again. */
#include <assert.h>
#include <string.h>

#include "policy/replay_export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As the seeds need it: the first set of docs/formats/audit-log-vectors.json is made so. */
static struct policy_set *make_set(void)
{
    static const struct policy_default_options options = {
        .epoch = 1, .region = "local/main", .now_ms = 1795171186000, .network = "10.0.0.0/8"};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err;

    assert(policy_default_set(&options, &payload, &err).ok);
    assert(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    return set;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct policy_set *set;
    struct replay_tally first = {0}, second = {0};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    struct error err;

    if (set == NULL) set = make_set();
    const struct replay_sets sets = {1, &set};
    const struct bytes line = {data, size};
    if (!replay_export_line(line, &sets, &first, &err).ok) return 0;
    assert(first.agree + first.differ + first.impossible == 1);
    assert(replay_export_line(line, &sets, &second, &err).ok);
    assert(first.agree == second.agree && first.differ == second.differ && strcmp(first.what, second.what) == 0);
    assert(replay_tally_json(&first, &text, &err).ok && replay_tally_text(&first, &text, &err).ok);
    return 0;
}
