/* A million tokens, each a good one with a few changes: none is accepted, each gets a reason, and the process lives. */
#include "tests/support/token_world.h"

#define MUTATIONS 1000000
#define TEXT_MAX  4096

static const struct token_row good_rows[] = {
    {"", BY_A, "ES256", A_HEADER, A_PAYLOAD, NULL},
    {"", BY_RSA, "RS256", "{\"alg\":\"RS256\",\"kid\":\"key-r\"}",
     "{\"iss\":\"https://rsa.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", NULL},
    {"", BY_ED, "EdDSA", "{\"alg\":\"EdDSA\",\"kid\":\"key-e\"}", E_PAYLOAD, NULL},
    {"", BY_US, "ES256", O_HEADER, O_PAYLOAD, NULL},
};

/* xorshift64*: the same tokens each time. */
static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * UINT64_C(2685821657736338717) >> 11) % below;
}

static char draw_letter(uint64_t *state)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \"{}\\\x01\x7f\xc3";

    return letters[draw(state, sizeof letters - 1)];
}

/* Mostly in the header: what passes it costs a check of a signature. */
static size_t draw_place(uint64_t *state, const char *text)
{
    return draw(state, draw(state, 4) == 0 ? strlen(text) : strcspn(text, ".") + 1);
}

static void replace(uint64_t *state, char *text)
{

    for (uint64_t left = 1 + draw(state, 3); left > 0; left--) text[draw_place(state, text)] = draw_letter(state);
}

static void cut_out(uint64_t *state, char *text)
{
    const size_t length = strlen(text), at = draw_place(state, text), size = 1 + draw(state, 8);
    const size_t end = at + size < length ? at + size : length;

    memmove(text + at, text + end, length - end + 1);
}

static void put_in(uint64_t *state, char *text)
{
    const size_t length = strlen(text), at = draw_place(state, text);

    memmove(text + at + 1, text + at, length - at + 1);
    text[at] = draw_letter(state);
}

/* The same segment of another token: a header, a payload or a signature that is good elsewhere. */
static void take_segment(uint64_t *state, char *text, const char *other)
{
    char made[TEXT_MAX];
    const char *dots[2][4] = {{text}, {other}};
    const size_t wanted = draw(state, 3);
    size_t length = 0;

    for (size_t which = 0; which < 2; which++) {
        const char *all = dots[which][0];
        dots[which][1] = strchr(all, '.');
        dots[which][2] = strrchr(all, '.');
        dots[which][3] = all + strlen(all);
    }
    for (size_t i = 0; i < 3; i++) {
        const char *const *from = dots[i == wanted];
        const char *begin = i == 0 ? from[0] : from[i] + 1;
        length +=
            (size_t)snprintf(made + length, sizeof made - length, "%s%.*s", i == 0 ? "" : ".", (int)(from[i + 1] - begin), begin);
    }
    memcpy(text, made, length + 1);
}

/* One byte of the JSON behind a segment, with the encoding made right again. */
static void change_json(uint64_t *state, char *text)
{
    struct buffer OWNED_BUFFER json = BUFFER(TEXT_MAX), made = BUFFER(TEXT_MAX);
    char *const first = strchr(text, '.'), *const last = strrchr(text, '.');
    const bool is_header = draw(state, 2) == 0;
    char *const begin = is_header ? text : first + 1, *const end = is_header ? first : last;
    struct error err = {0};

    assert_true(text_from_base64(&json, BASE64_URL, (struct bytes){(uint8_t *)begin, (size_t)(end - begin)}, &err).ok);
    json.data[draw(state, json.length)] = (uint8_t)draw_letter(state);
    assert_true(buffer_add(&made, text, (size_t)(begin - text), &err).ok);
    assert_true(text_base64(&made, BASE64_URL, buffer_bytes(&json), &err).ok);
    assert_true(buffer_add_text(&made, end, &err).ok);
    memcpy(text, buffer_text(&made), made.length + 1);
}

static void mutate(uint64_t *state, char *text, char *const good[])
{
    switch (draw(state, 8)) {
    case 0:
    case 1: replace(state, text); break;
    case 2:
    case 3: cut_out(state, text); break;
    case 4:
    case 5: put_in(state, text); break;
    case 6: take_segment(state, text, good[draw(state, COUNT(good_rows))]); break;
    default: change_json(state, text); break;
    }
}

static bool is_good(const char *text, char *const good[])
{
    while (*text == ' ') text++; /* blanks between "Bearer" and a token are none of the token's */
    for (size_t i = 0; i < COUNT(good_rows); i++)
        if (strcmp(text, good[i]) == 0) return true;
    return false;
}

static void no_mutated_token_is_accepted(void **state)
{
    char *good[COUNT(good_rows)];
    uint64_t drawn = 21, refused = 0;
    char text[TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(good_rows); i++) {
        good[i] = make_token(&good_rows[i]);
        assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, good[i]).error, OAUTH_NONE);
    }
    const int64_t begun_ms = clock_monotonic_ms();
    for (size_t number = 0; refused < MUTATIONS; number++) {
        (void)snprintf(text, sizeof text, "%s", good[number % COUNT(good_rows)]);
        mutate(&drawn, text, good);
        if (is_good(text, good)) continue; /* a letter was replaced by itself */
        const struct authentication found = try_bearer(number % 2 == 0 ? CREDENTIAL_AT_ROUTE : CREDENTIAL_AT_SESSION, text);
        if (found.error == OAUTH_NONE || found.description[0] == '\0') fail_msg("accepted, or without a reason: %s", text);
        assert_int_equal(found.principal.kind, PRINCIPAL_NONE);
        refused++;
    }
    (void)printf("%llu mutated tokens were refused in %lld ms\n", (unsigned long long)refused,
                 (long long)(clock_monotonic_ms() - begun_ms));
    for (size_t i = 0; i < COUNT(good_rows); i++) free(good[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_mutated_token_is_accepted)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
