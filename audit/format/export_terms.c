#include "audit/format/export_terms.h"

#include <string.h>

#include "base/text.h"

static const char *const units[] = {"number", "time"};

const char *export_unit_name(enum export_unit unit)
{
    return units[unit];
}

bool export_nonce_is_valid(struct bytes nonce)
{
    return nonce.length >= EXPORT_NONCE_MIN && nonce.length <= EXPORT_NONCE_MAX && text_consists_of(nonce, "0123456789abcdef");
}

struct result export_terms_write(const struct export_terms *terms, struct buffer *text, struct error *err)
{
    return buffer_format(text, err, "%s %llu %llu %s %s %s", units[terms->unit], (unsigned long long)terms->from,
                         (unsigned long long)terms->until, terms->nonce, terms->is_opened ? "opened" : "sealed", terms->key);
}

static bool take_word(struct bytes word, const char *first, const char *second, bool *is_second_out)
{
    *is_second_out = bytes_equal(word, bytes_of_text(second));
    return *is_second_out || bytes_equal(word, bytes_of_text(first));
}

static bool copy(struct bytes text, char *destination, size_t room)
{
    if (text.length == 0 || text.length >= room || memchr(text.data, '\0', text.length) != NULL) return false;
    memcpy(destination, text.data, text.length);
    destination[text.length] = '\0';
    return true;
}

bool export_terms_read(struct bytes text, struct export_terms *terms_out)
{
    struct export_terms terms = {.from = 0};
    bool is_time = false;

    if (!take_word(text_cut(&text, ' '), units[EXPORT_BY_NUMBER], units[EXPORT_BY_TIME], &is_time) ||
        !text_to_u64(text_cut(&text, ' '), EXPORT_NUMBER_MAX, &terms.from) ||
        !text_to_u64(text_cut(&text, ' '), EXPORT_NUMBER_MAX, &terms.until))
        return false;
    const struct bytes nonce = text_cut(&text, ' ');
    if (!export_nonce_is_valid(nonce) || !copy(nonce, terms.nonce, sizeof terms.nonce) ||
        !take_word(text_cut(&text, ' '), "sealed", "opened", &terms.is_opened) || !copy(text, terms.key, sizeof terms.key))
        return false;
    terms.unit = is_time ? EXPORT_BY_TIME : EXPORT_BY_NUMBER;
    *terms_out = terms;
    return terms.from <= terms.until;
}

bool export_terms_equal(const struct export_terms *a, const struct export_terms *b)
{
    return a->unit == b->unit && a->from == b->from && a->until == b->until && a->is_opened == b->is_opened &&
           strcmp(a->nonce, b->nonce) == 0 && strcmp(a->key, b->key) == 0;
}
