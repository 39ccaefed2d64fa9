/* Sets and their envelopes: an accepted set has its stated digest, and can be read by a person, whatever its texts are. */
#include <assert.h>
#include <string.h>

#include "base/terminal_text.h"
#include "policy/places.h"
#include "policy/set.h"
#include "policy/set_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_aloud(const struct policy_set *set)
{
    static const struct set_reading reading = {.now_ms = 1795171186000};
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);
    struct error err;

    (void)places_check(set, &err).ok;
    assert(policy_set_text(set, &reading, &text, &err).ok);
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] == '\n') text.data[i] = ' ';
    assert(terminal_is_printable(buffer_text(&text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes input = {data, size};
    OWNED(policy_set) *set = NULL;
    static struct ecdsa_key *approver;
    struct policy_set *signed_set = NULL;
    OWNED_JSON json = NULL;
    struct error err;

    if (approver == NULL) assert(ecdsa_key_new(&approver, &err).ok);
    assert(!policy_set_read(input, approver, &signed_set, &err).ok); /* nobody signs with that key */
    if (!policy_set_compile(input, &set, &err).ok) return 0;
    assert(json_read(input, POLICY_SET_BYTES_MAX, &json, &err).ok);
    assert(strcmp(json_text_of(json, "digest"), policy_set_digest(set)) == 0);
    read_aloud(set);
    return 0;
}
