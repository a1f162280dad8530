"""Stop words of English, German, French and Spanish.

Written as `ranking.fold` returns them: lower case, without accents. Sources: the stop word lists of Snowball
(https://snowballstem.org/algorithms), without nouns, and the words with which users phrase questions.
"""

from typing import Final

_ENGLISH: Final = (
    "a about after again all am an and any are as at be because been before being between both but by can "
    "could did do does doing don down during each few find for from further give had has have having he her "
    "here hers him his how i if in into is it its just let me more most my no nor not now of off on once only "
    "or other our ours out over own please s same she should show so some such t tell than that the their "
    "them then there these they this those through to too under until up very was we were what when where "
    "which while who whom why will with would wrote you your yours noted written"
)
_GERMAN: Final = (
    "aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf "
    "aus bei bin bis bist bitte da damit dann das dass dein deine deinem deinen deiner dem den denn der des "
    "dessen die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines "
    "er es etwas euch euer eure finde finden fur gab gegen geht gewesen gibt hab habe haben hat hatte hatten "
    "hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder "
    "jedes jene jenem jenen jener jenes kann kein keine keinem keinen keiner konnte man mein meine meinem "
    "meinen meiner mich mir mit muss nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem "
    "seinen seiner selbst sich sie sind so soll sollte steht stehen uber um und uns unser unsere unserem "
    "unseren unter viel vom von vor wann war waren warst was weil welche welchem welchen welcher welches wenn "
    "wer werde werden wie wieder will wir wird wo wollte worin wurde wurden zeig zeige zu zum zur zwar "
    "zwischen notiert geschrieben aufgeschrieben"
)
_FRENCH: Final = (
    "a ai ait as au aura aux avait avec avez avoir avons c ce ceci cela ces cet cette comme comment d dans de "
    "des donc du elle elles en entre es est et etait etaient etais ete etes etre eu eux fait il ils j je l la "
    "le les leur leurs lui m ma mais me meme mes moi mon n ne nos notre nous on ont ou par pas peut plus pour "
    "pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se ses si soit sommes son sont suis "
    "sur t ta te tes toi ton trouve tu un une vos votre vous y ecrit"
)
_SPANISH: Final = (
    "a al algo ante antes como con contra cual cuales cuando de del desde donde dos el ella ellas ellos en "
    "entre era eran es esa esas ese eso esos esta estaba estado estan estar estas este esto estos fue ha habia "
    "han hasta hay he la las le les lo los mas me mi mis mucho muy nada ni no nos nosotros nuestra nuestro o "
    "os otra otro para pero poco por porque que quien quienes se ser si sin sobre son soy su sus tambien te "
    "tengo ti tiene todo todos tu tus un una uno unos usted y ya yo anote"
)
#: Pairs of characters from Chinese and Japanese questions.
_PAIRS: Final = "哪里 在哪 哪儿 什么 怎么 为什 如何 我的 你的 了吗 どこ です ます した から こと の? は?"

STOP_WORDS: Final = frozenset(f"{_ENGLISH} {_GERMAN} {_FRENCH} {_SPANISH} {_PAIRS}".split())
