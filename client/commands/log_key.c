/* `sijil admin log-key` and `sijil audit key --follow`: a new key of the log (docs/keys.md, "A new key of the log"). */
#include <stdio.h>
#include <string.h>

#include "audit/format/log_keys.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/log_key_priv.h"
#include "client/local.h"
#include "client/terminal.h"
#include "crypto/dsse.h"
#include "crypto/keyd_client.h"

#define OVERLAP_S ((uint64_t)30 * 86400) /* long enough for verifiers to learn of it */

static struct result bad_overlap(struct invocation *invocation, struct error *err)
{
    return line_check(
        invocation,
        failure(err, ERROR_INVALID, "--overlap is a whole number with d, h, m or s behind it, such as 30d, and at most 400d"));
}

static struct result read_overlap(struct invocation *invocation, uint64_t *seconds_out, struct error *err)
{
    static const struct {
        char letter;
        uint64_t seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    const char *text = invocation_option(invocation, 'l');
    uint64_t number = 0;

    *seconds_out = OVERLAP_S;
    if (text == NULL) return SUCCESS;
    const size_t length = strlen(text);
    if (length < 2 || !text_to_u64((struct bytes){(const uint8_t *)text, length - 1}, LOG_ROTATION_OVERLAP_MAX_S, &number))
        return bad_overlap(invocation, err);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (text[length - 1] != units[i].letter) continue;
        *seconds_out = number * units[i].seconds;
        return *seconds_out <= LOG_ROTATION_OVERLAP_MAX_S ? SUCCESS : bad_overlap(invocation, err);
    }
    return bad_overlap(invocation, err);
}

static struct result read_order(struct invocation *invocation, struct log_rotation_order *order, struct error *err)
{
    const char *old = invocation_option(invocation, 'O'), *new = invocation_option(invocation, 'n');

    if (old == NULL || new == NULL)
        return line_check(
            invocation,
            failure(err, ERROR_INVALID,
                    "--old and --new are needed: the keys that 'sijil admin log-key status' shows; compare the new one "
                    "with what sijil-keyd --add-log-key printed"));
    TRY(line_check(invocation, note_key_read(bytes_of_text(old), &order->old, err)));
    TRY(line_check(invocation, note_key_read(bytes_of_text(new), &order->new, err)));
    return read_overlap(invocation, &order->overlap_s, err);
}

struct result command_log_key_sign(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(2048), envelope = BUFFER(KEYD_LOG_ROTATION_MAX);
    struct log_rotation_order order, again;
    OWNED(ecdsa_key) *key = NULL;

    TRY(read_order(invocation, &order, err));
    TRY(log_rotation_order_write(&order, &payload, err));
    TRY(line_check(invocation, log_rotation_order_read(buffer_bytes(&payload), &again, err)));
    TRY(command_signer(invocation, &key, err));
    const struct ecdsa_key *signer = key;
    TRY(dsse_write(LOG_ROTATION_PAYLOAD, buffer_bytes(&payload), &signer, 1, &envelope, err));
    TRY(buffer_add_u8(&envelope, '\n', err));
    return api_output(invocation, invocation_option(invocation, 'o'), buffer_bytes(&envelope), err);
}

static void print_line(const char *title, const json_t *value)
{
    char cell[CELL_MAX];

    cell_text(value, cell);
    (void)printf("%-10s %s\n", title, cell);
}

static struct result print_state(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    if (invocation->json) return api_print_json(answer, err);
    print_line("signs", json_object_get(answer, "vkey"));
    print_line("next", json_object_get(answer, "next"));
    print_line("old until", json_object_get(answer, "retires_at"));
    return SUCCESS;
}

struct result command_log_key_status(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call(invocation, "GET", "/log-key", NULL, &answer, err));
    return print_state(invocation, answer, err);
}

struct result command_log_key_rotate(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(KEYD_LOG_ROTATION_MAX);
    const char *path = invocation->operands[1];
    OWNED_JSON order = NULL;
    OWNED_JSON answer = NULL;

    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(json_read(buffer_bytes(&text), KEYD_LOG_ROTATION_MAX, &order, err), path, err));
    TRY(api_call(invocation, "POST", "/log-key", order, &answer, err));
    return print_state(invocation, answer, err);
}

/* ---- sijil audit key --follow FILE ---- */

/* Nothing that was known before may be another one now. */
static struct result check_kept(const struct log_keys *before, const struct log_keys *now, struct error *err)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct note_key *key = &before->keys[i];
        size_t at = 0;
        while (at < now->count && memcmp(now->keys[at].public_key, key->public_key, sizeof key->public_key) != 0) at++;
        if (at < now->count && (i == 0 || (now->starts[at].size == before->starts[i].size &&
                                           merkle_hash_equal(&now->starts[at].root, &before->starts[i].root))))
            continue;
        return failure(
            err, ERROR_DENIED,
            "the registry does not show a key of the log that your file has: keep the file, and ask why. Two handovers of one key mean "
            "that it was stolen, or that the log forked");
    }
    return SUCCESS;
}

/* The key that the user trusts. What was behind it is put there again. */
static struct bytes first_line(struct bytes file)
{
    const uint8_t *end = file.length == 0 ? NULL : memchr(file.data, '\n', file.length);

    return (struct bytes){file.data, end == NULL ? file.length : (size_t)(end - file.data)};
}

static struct result follow(struct bytes file, const char *shown, const char *newest, struct buffer *text, struct error *err)
{
    struct log_keys before, now;
    struct note_key wanted;

    TRY(log_keys_read(file, &before, err));
    TRY(note_key_read(bytes_of_text(newest), &wanted, err));
    TRY(log_keys_join(first_line(file), bytes_of_text(shown), text, err));
    TRY(log_keys_read(buffer_bytes(text), &now, err));
    TRY(check_kept(&before, &now, err));
    if (memcmp(log_keys_newest(&now)->public_key, wanted.public_key, sizeof wanted.public_key) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "the registry's log is signed by %.200s, and no handover leads there from the key that your file has: do not "
                   "trust that key. If the log has a new name, two officers have signed that (docs/recovery.md)",
                   newest);
}

struct result log_key_follow(const char *path, const json_t *answer, struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(LOG_KEYS_TEXT_MAX), text = BUFFER(LOG_KEYS_TEXT_MAX);
    const char *shown = json_text_of(answer, "keys"), *newest = json_text_of(answer, "vkey");

    if (shown == NULL || newest == NULL)
        return failure(err, ERROR_INVALID, "the registry shows no handovers of its log's key: it is of an earlier version");
    TRY(local(file_read(path, &file, err), path, err));
    TRY(follow(buffer_bytes(&file), shown, newest, &text, err));
    if (!bytes_equal(buffer_bytes(&file), buffer_bytes(&text))) TRY(file_write_output(path, buffer_bytes(&text), 0644, err));
    (void)printf("%s\n", newest); /* its form was checked */
    return SUCCESS;
}
