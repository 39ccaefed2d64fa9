/* The order to change the log's key, as the root of approvers signs it. */
#include <string.h>

#include "audit/format/log_keys.h"
#include "audit/format/text_rules_priv.h"
#include "base/text.h"

struct result log_rotation_order_write(const struct log_rotation_order *order, struct buffer *payload, struct error *err)
{
    TRY(buffer_format(payload, err, LOG_ROTATION_TITLE " %s %llu\n", order->old.name, (unsigned long long)order->overlap_s));
    TRY(note_key_write(&order->old, payload, err));
    TRY(buffer_add_u8(payload, '\n', err));
    TRY(note_key_write(&order->new, payload, err));
    return buffer_add_u8(payload, '\n', err);
}

static struct result read_title(struct bytes line, struct bytes *origin_out, uint64_t *overlap_s_out, struct error *err)
{
    const struct bytes title = text_cut(&line, ' ');

    *origin_out = text_cut(&line, ' ');
    if (bytes_equal(title, bytes_of_text(LOG_ROTATION_TITLE)) && text_to_u64(line, LOG_ROTATION_OVERLAP_MAX_S, overlap_s_out))
        return SUCCESS;
    return failure(err, ERROR_INVALID, "an order to change the log's key begins with %s, the origin and at most %d seconds",
                   LOG_ROTATION_TITLE, LOG_ROTATION_OVERLAP_MAX_S);
}

static bool is_of(const struct note_key *key, struct bytes origin)
{
    return key->algorithm == NOTE_ED25519 && bytes_equal(origin, bytes_of_text(key->name));
}

struct result log_rotation_order_read(struct bytes payload, struct log_rotation_order *order_out, struct error *err)
{
    struct bytes title, old, new, origin;
    struct log_rotation_order order;

    if (!next_line(&payload, &title) || !next_line(&payload, &old) || !next_line(&payload, &new) || payload.length > 0)
        return failure(err, ERROR_INVALID, "an order to change the log's key has three lines");
    TRY(read_title(title, &origin, &order.overlap_s, err));
    TRY(note_key_read(old, &order.old, err));
    TRY(note_key_read(new, &order.new, err));
    if (!is_of(&order.old, origin) || !is_of(&order.new, origin))
        return failure(err, ERROR_INVALID, "an order to change the log's key names keys of another log");
    *order_out = order;
    return SUCCESS;
}
