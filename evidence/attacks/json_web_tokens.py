"""OAUTHBEARER: tokens that nobody issued, for somebody else, of another time, and messages around them."""

from __future__ import annotations

import time
from collections.abc import Iterable

from evidence.attacks.attack import attack
from evidence.attacks.peer import CLOSED, Peer, handshake, said, token
from evidence.attacks.target import Target
from evidence.world.identity_provider import AUDIENCE, ISSUER, claims, encoded, key, message, signed
from oncelog.core.json_web_token import unsigned_token

REFUSED = f"58, {CLOSED}"
HS = ("HS256", "HS384", "HS512")


async def show(peer: Peer, data: bytes) -> str:
    """What a first message ends in; the client's goodbye behind an error document is said."""
    await peer.ask(*handshake("OAUTHBEARER"))
    answer = await peer.ask(*token(data))
    if answer is not None and answer.error_code == 0 and bytes(answer.auth_bytes):
        assert b"invalid_token" in bytes(answer.auth_bytes)
        answer = await peer.ask(*token(b"\x01"))
    if answer is None:
        return CLOSED
    return f"{said(answer)}, {await peer.rest()}"


async def tried(target: Target, tokens: Iterable[str]) -> str:
    """What each is told, on a connection of its own; none may be logged."""
    ends = set()
    for each in tokens:
        if len(each) > len("three.parts.and.more"):
            target.secrets.add(each)
        ends.add(await show(await target.connect(), message(each)))
    return " or ".join(sorted(ends))


@attack(REFUSED, "algorithm is not believed")
async def without_a_signature(target: Target) -> str:
    """`alg` none in every spelling, and a signature left out beside it."""
    _, payload, signature = signed().split(".")
    spelled = [f"{encoded({'alg': name})}.{payload}." for name in ("None", "NONE", "nOnE", "")]
    return await tried(
        target, [unsigned_token(claims()), *spelled, f"{encoded({'alg': 'none'})}.{payload}.{signature}"]
    )


@attack(REFUSED, "signature is wrong")
async def a_signature_left_out_or_empty(target: Target) -> str:
    """A right header and payload with no signature, and with zeros."""
    header, payload, _ = signed().split(".")
    return await tried(target, [f"{header}.{payload}.", f"{header}.{payload}.{encoded(bytes(256))}"])


@attack(REFUSED, "algorithm is not believed")
async def the_public_key_as_a_secret(target: Target) -> str:
    """Signs by HMAC with the provider's public key as its secret (key confusion), in PEM and DER."""
    public = key()
    forms = (public.as_pem(private=False), public.as_der(private=False), public.as_pem(private=False).strip())
    return await tried(target, [signed(algorithm=each, with_key=form) for form in forms for each in HS])


@attack(REFUSED, "no key fits")
async def an_algorithm_of_another_kind_of_key(target: Target) -> str:
    """ES256 under a key of RSA, RS256 under a curve's."""
    return await tried(target, [signed(algorithm="ES256", name="first"), signed(name="curve", with_key=key("first"))])


@attack(REFUSED, "wrong")
async def a_curves_zero_signature(target: Target) -> str:
    """r = s = 0 (CVE-2022-21449)."""
    payload = signed().split(".")[1]
    return await tried(target, [f"{encoded({'alg': 'ES256', 'kid': 'curve'})}.{payload}.{encoded(bytes(64))}"])


@attack(REFUSED, "signature is wrong")
async def anothers_key_under_our_name(target: Target) -> str:
    """Signs by a key of its own and names the provider's (`kid`); leaves the name empty."""
    own = key("strangers")
    return await tried(target, [signed(with_key=own), signed(header={"kid": ""}, with_key=own)])


@attack(REFUSED, "signature is wrong")
async def another_of_the_providers_keys(target: Target) -> str:
    """Signed by the first key, with the second's name."""
    return await tried(target, [signed(name="second", with_key=key("first"))])


@attack(REFUSED, "no key has its kid")
async def a_key_name_that_is_a_path_or_a_query(target: Target) -> str:
    """`../../dev/null`, `' or 1=1 --` and unknown names as `kid`."""
    names = ("../../dev/null", "' or 1=1 --", "strangers", "file:///etc/hostname")
    return await tried(target, [signed(header={"kid": each}) for each in names])


@attack(REFUSED, "signature is wrong")
async def a_key_that_it_brings_along(target: Target) -> str:
    """Its own key in the header (`jwk`), or its certificate (`x5c`)."""
    own = key("strangers")
    jwk = own.as_dict(private=False)
    return await tried(target, [signed(header=each, with_key=own) for each in ({"jwk": jwk}, {"x5c": ["AAAA"]})])


@attack(f"{REFUSED}, nobody asked", "signature is wrong")
async def an_address_to_fetch_keys_from(target: Target) -> str:
    """`jku` and `x5u` at a server of the attacker's: whether the broker asks there (SSRF)."""
    import asyncio

    asked: list[str] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append("asked")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    end = await tried(target, [signed(header={each: url}, with_key=key("strangers")) for each in ("jku", "x5u")])
    server.close()
    return f"{end}, {'asked' if asked else 'nobody asked'}"


@attack(REFUSED, "must be understood")
async def a_critical_extension(target: Target) -> str:
    """`crit` with something unknown, and `b64` false: a payload that is not encoded."""
    return await tried(target, [signed(header={"crit": ["x"], "x": 1}), signed(header={"crit": ["b64"], "b64": False})])


@attack(REFUSED, "signature is wrong")
async def other_claims_under_a_right_signature(target: Target) -> str:
    """Takes a good token and puts `admin` into it; changes its header."""
    header, payload, signature = signed().split(".")
    changed = encoded({"alg": "RS256", "kid": "first", "x": 1})
    other = f"{header}.{encoded(claims(sub='admin'))}.{signature}"
    return await tried(target, [other, f"{changed}.{payload}.{signature}"])


@attack(REFUSED, "is wrong")
async def another_hash_than_it_says(target: Target) -> str:
    """RS512 in the header, RS256 in the signature."""
    _, payload, signature = signed().split(".")
    return await tried(target, [f"{encoded({'alg': 'RS512', 'kid': 'first'})}.{payload}.{signature}"])


@attack(REFUSED, "stands twice")
async def claims_that_stand_twice(target: Target) -> str:
    """`sub` twice: one reader sees olga, another admin."""
    now = int(time.time())
    text = f'{{"sub":"olga","sub":"admin","iat":{now},"exp":{now + 600},"aud":"{AUDIENCE}","iss":"{ISSUER}"}}'
    return await tried(target, [signed(text)])


@attack(REFUSED, "expired")
async def an_old_token(target: Target) -> str:
    """Expired a second ago, and in 1970."""
    return await tried(target, [signed(claims(exp=time.time() - 1)), signed(claims(exp=1))])


@attack(REFUSED, "exp is no time")
async def a_token_without_an_end(target: Target) -> str:
    """No `exp`, one as text, one of 1e400."""
    now = int(time.time())
    huge = f'{{"sub":"olga","iat":{now},"exp":1e400,"aud":"{AUDIENCE}","iss":"{ISSUER}"}}'
    return await tried(target, [signed(claims(exp=None)), signed(claims(exp="99999999999")), signed(huge)])


@attack(REFUSED, "does not hold yet")
async def a_token_of_tomorrow(target: Target) -> str:
    """`nbf` in the future."""
    return await tried(target, [signed(claims(nbf=time.time() + 100))])


@attack(REFUSED, "in the future")
async def a_token_issued_tomorrow(target: Target) -> str:
    """`iat` a day ahead."""
    now_s = time.time()
    return await tried(target, [signed(claims(iat=now_s + 86_400, exp=now_s + 99_999))])


@attack(REFUSED, "iat is no time")
async def a_token_that_was_never_issued(target: Target) -> str:
    """No `iat`."""
    return await tried(target, [signed(claims(iat=None))])


@attack(REFUSED, "another audience")
async def a_token_for_another_service(target: Target) -> str:
    """Another `aud`, none, a part of ours."""
    return await tried(target, [signed(claims(aud=each)) for each in ("somebody else's", None, AUDIENCE[:-1], [])])


@attack(REFUSED, "issuer")
async def a_token_of_another_issuer(target: Target) -> str:
    """`iss` with a slash more, in capitals, none."""
    return await tried(target, [signed(claims(iss=each)) for each in (ISSUER + "/", ISSUER.upper(), None)])


@attack(REFUSED, "sub is no name")
async def a_token_of_nobody(target: Target) -> str:
    """No `sub`, a blank one, names in a list, half a letter."""
    return await tried(target, [signed(claims(sub=each)) for each in (None, " ", ["olga", "admin"], "\ud800")])


@attack(REFUSED, "three parts|long")
async def a_token_of_other_parts(target: Target) -> str:
    """Five parts (an encrypted one), two, one."""
    good = signed()
    return await tried(target, [f"{good}.a.b", good.rpartition(".")[0], "a"])


@attack(REFUSED, "not JSON|no JSON object")
async def a_payload_that_is_none(target: Target) -> str:
    """Broken JSON, a list, thirty thousand brackets."""
    return await tried(target, [signed("}{"), signed([1, 2]), signed("[" * 30_000)])


@attack(REFUSED, "another authorization id")
async def a_good_token_for_somebody_else(target: Target) -> str:
    """Olga's own token with `a=admin` in the message around it."""
    good = signed()
    target.secrets.add(good)
    return await show(await target.connect(), message(good, name="admin"))


@attack(REFUSED, "form")
async def a_second_token_in_the_message(target: Target) -> str:
    """`auth` twice: a refused token, then a good one."""
    good = signed()
    data = (
        b"n,,\x01auth=Bearer " + unsigned_token(claims()).encode() + b"\x01auth=Bearer " + good.encode() + b"\x01\x01"
    )
    target.secrets.add(good)
    return await show(await target.connect(), data)


@attack(REFUSED, "no bearer token")
async def another_scheme(target: Target) -> str:
    """`auth=Basic`, and no token behind Bearer."""
    ends = [
        await show(await target.connect(), b"n,,\x01auth=" + each + b"\x01\x01") for each in (b"Basic YTpi", b"Bearer")
    ]
    return " or ".join(sorted(set(ends)))


@attack(REFUSED, "another message behind a refused token")
async def token_after_token(target: Target) -> str:
    """Behind a refused token comes another one at once, without the delay: a good one at last."""
    peer = await target.connect()
    await peer.ask(*handshake("OAUTHBEARER"))
    await peer.ask(*token(message(unsigned_token(claims()))))
    good = signed()
    target.secrets.add(good)
    return await peer.converse(token(message(good)))


@attack(REFUSED, "longer|bytes|form")
async def a_token_of_100_kilobytes(target: Target) -> str:
    """A token beyond 64 KiB, to be decoded and verified."""
    return await tried(target, [signed(claims(padding="x" * 100_000))])
