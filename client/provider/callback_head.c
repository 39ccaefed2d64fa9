/* The request with which the browser comes back. */
#include <string.h>

#include "base/text.h"
#include "client/provider/callback.h"

static int hex_digit(uint8_t letter)
{
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

/* application/x-www-form-urlencoded. False: it does not fit, has a NUL, or is malformed. */
static bool decode(struct bytes text, char *out, size_t room)
{
    size_t length = 0;

    for (size_t i = 0; i < text.length; i++) {
        uint8_t letter = text.data[i] == '+' ? ' ' : text.data[i];
        if (letter == '%') {
            if (text.length - i < 3) return false;
            const int high = hex_digit(text.data[i + 1]), low = hex_digit(text.data[i + 2]);
            if (high < 0 || low < 0) return false;
            letter = (uint8_t)(high * 16 + low);
            i += 2;
        }
        if (letter == '\0' || length + 1 >= room) return false;
        out[length++] = (char)letter;
    }
    out[length] = '\0';
    return true;
}

struct member {
    const char *name;
    char *place;
    size_t room;
    bool is_there;
};

static bool take_parameter(struct bytes parameter, struct member *members, size_t count)
{
    const struct bytes name = text_cut(&parameter, '=');

    for (size_t i = 0; i < count; i++) {
        if (!bytes_equal(name, bytes_of_text(members[i].name))) continue;
        if (members[i].is_there) return false;
        members[i].is_there = true;
        return decode(parameter, members[i].place, members[i].room);
    }
    return true; /* issuers add others: session_state, scope */
}

static bool take_target(struct bytes head, struct bytes *query_out)
{
    static const char start[] = "GET " CALLBACK_PATH "?";
    struct bytes line = text_cut(&head, '\r');

    if (line.length < strlen(start) || memcmp(line.data, start, strlen(start)) != 0) return false;
    line.data += strlen(start);
    line.length -= strlen(start);
    *query_out = text_cut(&line, ' ');
    return line.length == strlen("HTTP/1.1") && memcmp(line.data, "HTTP/1.", strlen("HTTP/1.")) == 0;
}

bool callback_parse(struct bytes head, struct callback *callback_out)
{
    struct callback callback = {0};
    struct member members[] = {{"code", callback.code, sizeof callback.code, false},
                               {"state", callback.state, sizeof callback.state, false},
                               {"iss", callback.issuer, sizeof callback.issuer, false},
                               {"error", callback.error, sizeof callback.error, false},
                               {"error_description", callback.description, sizeof callback.description, false}};
    struct bytes query;

    if (!take_target(head, &query)) return false;
    while (query.length > 0)
        if (!take_parameter(text_cut(&query, '&'), members, sizeof members / sizeof members[0])) return false;
    if (callback.state[0] == '\0' || (callback.code[0] == '\0') == (callback.error[0] == '\0')) return false;
    *callback_out = callback;
    return true;
}
