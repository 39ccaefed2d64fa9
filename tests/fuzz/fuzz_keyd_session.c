/*
 * The messages of a compromised gateway to sijil-keyd, one after the other. They must never make the log shrink, bring back an
 * older policy, change the approver, or release a key uncounted.
 *
 * Input: messages of u8 type | u16 length | fields. A type with the high bit asks keyd to open what it sealed last.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keyd/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char path[] = "/dev/shm/sijil-fuzz-XXXXXX"; /* in memory: the ledger syncs after each change */
static int folder = -1;
static struct keyring *keyring;

/* The request and the result of the last wrap or subject_key_new. */
struct sealed {
    struct key_binding binding;
    uint8_t index[32];
    struct wrapped_key data_key, subject_key;
    bool has_data_key, has_subject_key;
};

static void remove_folder(void)
{
    (void)unlinkat(folder, KEYRING_FILE, 0);
    (void)unlinkat(folder, LEDGER_FILE, 0);
    (void)unlinkat(folder, RUN_LEDGER_FILE, 0);
    (void)unlinkat(folder, LOG_ROTATION_FILE, 0);
    (void)unlinkat(folder, REPLACEMENT_FILE, 0);
    (void)rmdir(path);
    keyring_free(keyring);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct error err;
    const struct keyring_options options = {
        .origin = "fuzz.example/log", .passphrase = bytes_of_text("fuzz"), .cost = {.passes = 1, .memory_kib = 64}};

    (void)argc;
    (void)argv;
    assert(mkdtemp(path) != NULL && atexit(remove_folder) == 0);
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert(folder >= 0 && keyring_create(folder, &options, ledger_create, &err).ok);
    assert(keyring_open(folder, options.passphrase, &keyring, &err).ok);
    return 0;
}

static struct result compose(struct reader *input, const struct sealed *sealed, struct buffer *message, struct error *err)
{
    struct keyd_request request = {.id = 1};
    const uint8_t type = reader_u8(input);
    const struct bytes fields = reader_take(input, reader_u16(input));

    if ((type & 0x80) == 0) {
        TRY(buffer_add_u32(message, (uint32_t)(10 + fields.length), err));
        TRY(buffer_add_u8(message, KEYD_PROTOCOL_VERSION, err));
        TRY(buffer_add_u8(message, type, err));
        TRY(buffer_add_u64(message, 1, err));
        return buffer_add(message, fields.data, fields.length, err);
    }
    if ((type & 1) != 0 && sealed->has_data_key) {
        request.type = KEYD_UNWRAP;
        request.as.unwrap.binding = sealed->binding;
        request.as.unwrap.wrapped = sealed->data_key;
        if (fields.length > 0) request.as.unwrap.binding.blob.bytes[fields.data[0] % 16] ^= 1;
    } else if (sealed->has_subject_key) {
        request.type = KEYD_SUBJECT_KEY_OPEN;
        memcpy(request.as.subject_key.index, sealed->index, sizeof sealed->index);
        request.as.subject_key.wrapped = sealed->subject_key;
    } else {
        request.type = KEYD_IDENTIFY;
    }
    return keyd_request_write(message, &request, err);
}

static void remember(const struct keyd_request *request, const struct keyd_reply *reply, struct sealed *sealed)
{
    if (reply->type == KEYD_WRAP) {
        sealed->binding = request->as.wrap.binding;
        sealed->data_key = reply->as.wrapped;
        sealed->has_data_key = true;
    }
    if (reply->type == KEYD_SUBJECT_KEY_NEW) {
        memcpy(sealed->index, request->as.subject_key.index, sizeof sealed->index);
        sealed->subject_key = reply->as.subject_key.wrapped;
        sealed->has_subject_key = true;
    }
}

static bool all_zero(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != 0) return false;
    return true;
}

/* Checks the promises of keyd/ledger.h for one message. */
static void check_promises(const struct ledger_state *before, const struct ledger_state *after,
                           const struct keyd_request *request, const struct keyd_reply *reply)
{
    assert(after->log_size >= before->log_size);
    assert(after->log_size > before->log_size || memcmp(after->log_root, before->log_root, 32) == 0);
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) {
        const struct document_pin *old = &before->pins[i], *new = &after->pins[i];
        assert(new->epoch > old->epoch || (new->epoch == old->epoch &&memcmp(new->digest, old->digest, sizeof new->digest) == 0));
        assert(after->asked[i] >= before->asked[i]);
    }
    if (!all_zero(before->approver, sizeof before->approver))
        assert(memcmp(after->approver, before->approver, sizeof after->approver) == 0);
    assert(all_zero(before->witness_digest, sizeof before->witness_digest) || after->witness_epoch > before->witness_epoch ||
           memcmp(after->witness_digest, before->witness_digest, sizeof after->witness_digest) == 0);
    assert(before->finding[0] == '\0' || strcmp(before->finding, after->finding) == 0);
    assert(before->finding[0] == '\0' || reply->type != KEYD_CHECKPOINT);
    assert(after->unwrap_count >= before->unwrap_count && after->unwrap_count <= before->unwrap_count + 1);
    if (reply->type == KEYD_ERROR) return;
    assert(reply->type == request->type && reply->id == request->id);
    if (reply->type == KEYD_UNWRAP) assert(after->unwrap_count == before->unwrap_count + 1);
    if (reply->type == KEYD_PIN_POLICY) assert(after->pins[0].epoch == reply->as.pin.epoch);
}

static bool exchange(const struct keyd *keyd, struct reader *input, struct sealed *sealed)
{
    struct buffer OWNED_BUFFER message = BUFFER(KEYD_MESSAGE_LARGE), answer = BUFFER(KEYD_MESSAGE_LARGE);
    static struct keyd_request request;
    static struct keyd_reply reply;
    struct ledger_state before, after;
    struct error err = {0};

    if (!compose(input, sealed, &message, &err).ok || input->failed) return false;
    ledger_read(keyd->ledger, &before);
    const bool answered = keyd_answer(keyd, buffer_bytes(&message), &answer, &err).ok;
    ledger_read(keyd->ledger, &after);
    const bool readable = keyd_request_read(buffer_bytes(&message), &request, &err).ok;
    assert(answered == readable);
    if (!answered) return false; /* keyd closes the connection */
    assert(keyd_reply_read(buffer_bytes(&answer), &reply, &err).ok);
    check_promises(&before, &after, &request, &reply);
    remember(&request, &reply, sealed);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(ledger) *ledger = NULL;
    static const struct rate_limit unwraps = {"keys are unwrapped", UNWRAP_RATE_PER_S, UNWRAP_BURST};
    OWNED(rate) *rate = NULL;
    OWNED(mint_limits) *mints = NULL;
    OWNED(quorum) *quorum = NULL;
    static struct run_ledger *runs;       /* no message of this target has a valid bundle */
    static struct key_register *keys;     /* nor a signed document */
    static struct log_rotation *rotation; /* nor an order of the root */
    static struct replacements *replacements;
    struct sealed sealed = {.has_data_key = false};
    struct reader input = reader_of((struct bytes){data, size});
    struct error err;

    (void)unlinkat(folder, LEDGER_FILE, 0);
    assert(ledger_create(folder, keyring_ledger_key(keyring), &err).ok);
    assert(ledger_open(folder, keyring_ledger_key(keyring), &ledger, &err).ok && rate_new(&unwraps, &rate, &err).ok &&
           mint_limits_new(&mints, &err).ok && quorum_new(QUORUM_PATIENCE_S, &quorum, &err).ok);
    if (runs == NULL) assert(run_ledger_open(folder, keyring_ledger_key(keyring), 1, &runs, &err).ok);
    if (keys == NULL) assert(key_register_open(folder, keyring_ledger_key(keyring), ledger, &keys, &err).ok);
    if (replacements == NULL) assert(replacements_open(folder, keyring_ledger_key(keyring), ledger, &replacements, &err).ok);
    if (rotation == NULL) assert(log_rotation_open(folder, keyring, &rotation, &err).ok);
    const struct keyd keyd = {.keyring = keyring,
                              .ledger = ledger,
                              .rate = rate,
                              .mints = mints,
                              .runs = runs,
                              .keys = keys,
                              .quorum = quorum,
                              .rotation = rotation,
                              .replacements = replacements};
    for (unsigned i = 0; i < 64 && input.left.length > 0; i++)
        if (!exchange(&keyd, &input, &sealed)) break;
    return 0;
}
